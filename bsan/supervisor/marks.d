/tmp/api/bsan/supervisor/marks.o: supervisor/marks.c supervisor/marks.h \
 supervisor/types.h
supervisor/marks.h:
supervisor/types.h:
