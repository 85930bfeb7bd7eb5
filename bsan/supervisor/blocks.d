/tmp/api/bsan/supervisor/blocks.o: supervisor/blocks.c \
 supervisor/blocks.h supervisor/arena.h supervisor/types.h
supervisor/blocks.h:
supervisor/arena.h:
supervisor/types.h:
