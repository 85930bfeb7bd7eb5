/tmp/api/bsan/supervisor/options.o: supervisor/options.c \
 supervisor/options.h supervisor/session.h supervisor/process.h \
 supervisor/cfi.h supervisor/../inject/wire.h supervisor/types.h \
 supervisor/ledger.h supervisor/marks.h supervisor/module.h \
 supervisor/plant.h supervisor/stream.h supervisor/symbols.h \
 supervisor/units.h
supervisor/options.h:
supervisor/session.h:
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
supervisor/units.h:
