/tmp/api/bsan/supervisor/debugfile.o: supervisor/debugfile.c \
 supervisor/debugfile.h supervisor/types.h supervisor/proc.h
supervisor/debugfile.h:
supervisor/types.h:
supervisor/proc.h:
