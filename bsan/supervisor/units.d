/tmp/api/bsan/supervisor/units.o: supervisor/units.c supervisor/units.h \
 supervisor/types.h
supervisor/units.h:
supervisor/types.h:
