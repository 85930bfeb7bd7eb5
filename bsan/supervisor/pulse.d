/tmp/api/bsan/supervisor/pulse.o: supervisor/pulse.c supervisor/pulse.h \
 supervisor/../inject/wire.h supervisor/types.h
supervisor/pulse.h:
supervisor/../inject/wire.h:
supervisor/types.h:
