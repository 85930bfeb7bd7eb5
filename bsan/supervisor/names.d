/tmp/api/bsan/supervisor/names.o: supervisor/names.c supervisor/names.h \
 supervisor/types.h supervisor/demangle.h supervisor/site.h
supervisor/names.h:
supervisor/types.h:
supervisor/demangle.h:
supervisor/site.h:
