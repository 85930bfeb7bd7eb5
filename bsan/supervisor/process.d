/tmp/api/bsan/supervisor/process.o: supervisor/process.c \
 supervisor/process.h supervisor/cfi.h supervisor/../inject/wire.h \
 supervisor/types.h supervisor/ledger.h supervisor/marks.h \
 supervisor/module.h supervisor/plant.h supervisor/stream.h \
 supervisor/symbols.h supervisor/home.h supervisor/image.h \
 supervisor/proc.h
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
supervisor/home.h:
supervisor/image.h:
supervisor/proc.h:
