/tmp/api/bsan/supervisor/demangle.o: supervisor/demangle.c \
 supervisor/demangle.h supervisor/types.h
supervisor/demangle.h:
supervisor/types.h:
