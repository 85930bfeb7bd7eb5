/tmp/api/bsan/supervisor/keeper.o: supervisor/keeper.c \
 supervisor/keeper.h supervisor/types.h
supervisor/keeper.h:
supervisor/types.h:
