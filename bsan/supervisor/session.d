/tmp/api/bsan/supervisor/session.o: supervisor/session.c \
 supervisor/session.h supervisor/process.h supervisor/cfi.h \
 supervisor/../inject/wire.h supervisor/types.h supervisor/ledger.h \
 supervisor/marks.h supervisor/module.h supervisor/plant.h \
 supervisor/stream.h supervisor/symbols.h supervisor/api.h \
 supervisor/home.h supervisor/image.h supervisor/launch.h \
 supervisor/message.h supervisor/proc.h supervisor/pulse.h \
 supervisor/tracer.h supervisor/unwind.h
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
supervisor/api.h:
supervisor/home.h:
supervisor/image.h:
supervisor/launch.h:
supervisor/message.h:
supervisor/proc.h:
supervisor/pulse.h:
supervisor/tracer.h:
supervisor/unwind.h:
