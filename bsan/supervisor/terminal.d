/tmp/api/bsan/supervisor/terminal.o: supervisor/terminal.c \
 supervisor/terminal.h supervisor/types.h supervisor/keeper.h
supervisor/terminal.h:
supervisor/types.h:
supervisor/keeper.h:
