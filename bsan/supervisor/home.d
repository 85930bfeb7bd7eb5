/tmp/api/bsan/supervisor/home.o: supervisor/home.c supervisor/home.h \
 supervisor/process.h supervisor/cfi.h supervisor/../inject/wire.h \
 supervisor/types.h supervisor/ledger.h supervisor/marks.h \
 supervisor/module.h supervisor/plant.h supervisor/stream.h \
 supervisor/symbols.h supervisor/elf.h supervisor/image.h \
 supervisor/message.h supervisor/proc.h supervisor/pulse.h \
 supervisor/session.h supervisor/tracer.h
supervisor/home.h:
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
supervisor/elf.h:
supervisor/image.h:
supervisor/message.h:
supervisor/proc.h:
supervisor/pulse.h:
supervisor/session.h:
supervisor/tracer.h:
