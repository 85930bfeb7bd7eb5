/tmp/api/bsan/supervisor/scopes.o: supervisor/scopes.c \
 supervisor/scopes.h supervisor/types.h supervisor/demangle.h \
 supervisor/names.h
supervisor/scopes.h:
supervisor/types.h:
supervisor/demangle.h:
supervisor/names.h:
