/tmp/api/bsan/supervisor/print.o: supervisor/print.c supervisor/print.h \
 supervisor/json.h supervisor/types.h supervisor/sites.h \
 supervisor/symbols.h supervisor/view.h supervisor/profile.h
supervisor/print.h:
supervisor/json.h:
supervisor/types.h:
supervisor/sites.h:
supervisor/symbols.h:
supervisor/view.h:
supervisor/profile.h:
