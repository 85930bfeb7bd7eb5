/tmp/api/bsan/supervisor/view.o: supervisor/view.c supervisor/view.h \
 supervisor/profile.h supervisor/types.h supervisor/sites.h \
 supervisor/symbols.h
supervisor/view.h:
supervisor/profile.h:
supervisor/types.h:
supervisor/sites.h:
supervisor/symbols.h:
