/tmp/api/bsan/supervisor/callframe.o: supervisor/callframe.c \
 supervisor/callframe.h supervisor/../inject/wire.h supervisor/types.h
supervisor/callframe.h:
supervisor/../inject/wire.h:
supervisor/types.h:
