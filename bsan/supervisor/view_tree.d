/tmp/api/bsan/supervisor/view_tree.o: supervisor/view_tree.c \
 supervisor/view.h supervisor/profile.h supervisor/types.h \
 supervisor/sites.h supervisor/symbols.h
supervisor/view.h:
supervisor/profile.h:
supervisor/types.h:
supervisor/sites.h:
supervisor/symbols.h:
