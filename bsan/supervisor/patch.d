/tmp/api/bsan/supervisor/patch.o: supervisor/patch.c supervisor/patch.h \
 supervisor/types.h
supervisor/patch.h:
supervisor/types.h:
