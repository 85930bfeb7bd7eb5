/tmp/api/bsan/supervisor/site.o: supervisor/site.c supervisor/site.h \
 supervisor/types.h supervisor/demangle.h supervisor/symbols.h
supervisor/site.h:
supervisor/types.h:
supervisor/demangle.h:
supervisor/symbols.h:
