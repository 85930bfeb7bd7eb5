/tmp/api/bsan/supervisor/json.o: supervisor/json.c supervisor/json.h \
 supervisor/types.h
supervisor/json.h:
supervisor/types.h:
