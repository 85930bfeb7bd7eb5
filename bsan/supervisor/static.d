/tmp/api/bsan/supervisor/static.o: supervisor/static.c
