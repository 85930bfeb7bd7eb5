/tmp/api/bsan/supervisor/message.o: supervisor/message.c \
 supervisor/message.h supervisor/types.h
supervisor/message.h:
supervisor/types.h:
