/tmp/api/bsan/supervisor/arena.o: supervisor/arena.c supervisor/arena.h \
 supervisor/types.h
supervisor/arena.h:
supervisor/types.h:
