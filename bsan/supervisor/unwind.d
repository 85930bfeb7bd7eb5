/tmp/api/bsan/supervisor/unwind.o: supervisor/unwind.c \
 supervisor/unwind.h supervisor/types.h supervisor/callframe.h \
 supervisor/../inject/wire.h supervisor/cfi.h supervisor/elf.h \
 supervisor/module.h supervisor/plant.h supervisor/proc.h \
 supervisor/process.h supervisor/ledger.h supervisor/marks.h \
 supervisor/stream.h supervisor/symbols.h
supervisor/unwind.h:
supervisor/types.h:
supervisor/callframe.h:
supervisor/../inject/wire.h:
supervisor/cfi.h:
supervisor/elf.h:
supervisor/module.h:
supervisor/plant.h:
supervisor/proc.h:
supervisor/process.h:
supervisor/ledger.h:
supervisor/marks.h:
supervisor/stream.h:
supervisor/symbols.h:
