/tmp/api/bsan/supervisor/tracer.o: supervisor/tracer.c \
 supervisor/tracer.h supervisor/types.h
supervisor/tracer.h:
supervisor/types.h:
