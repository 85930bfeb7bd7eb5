/tmp/api/bsan/supervisor/view_table.o: supervisor/view_table.c \
 supervisor/view.h supervisor/profile.h supervisor/types.h \
 supervisor/sites.h supervisor/symbols.h
supervisor/view.h:
supervisor/profile.h:
supervisor/types.h:
supervisor/sites.h:
supervisor/symbols.h:
