/tmp/api/bsan/supervisor/proc.o: supervisor/proc.c supervisor/proc.h \
 supervisor/types.h
supervisor/proc.h:
supervisor/types.h:
