/tmp/api/bsan/supervisor/api.o: supervisor/api.c supervisor/api.h \
 supervisor/process.h supervisor/cfi.h supervisor/../inject/wire.h \
 supervisor/types.h supervisor/ledger.h supervisor/marks.h \
 supervisor/module.h supervisor/plant.h supervisor/stream.h \
 supervisor/symbols.h supervisor/message.h supervisor/proc.h \
 supervisor/pulse.h supervisor/session.h
supervisor/api.h:
supervisor/process.h:
supervisor/cfi.h:
supervisor/../inject/wire.h:
supervisor/types.h:
supervisor/ledger.h:
supervisor/marks.h:
supervisor/module.h:
supervisor/plant.h:
supervisor/stream.h:
supervisor/symbols.h:
supervisor/message.h:
supervisor/proc.h:
supervisor/pulse.h:
supervisor/session.h:
