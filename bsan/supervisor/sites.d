/tmp/api/bsan/supervisor/sites.o: supervisor/sites.c supervisor/sites.h \
 supervisor/symbols.h supervisor/types.h supervisor/../inject/wire.h
supervisor/sites.h:
supervisor/symbols.h:
supervisor/types.h:
supervisor/../inject/wire.h:
