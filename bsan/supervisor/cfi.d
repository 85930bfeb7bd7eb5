/tmp/api/bsan/supervisor/cfi.o: supervisor/cfi.c supervisor/cfi.h \
 supervisor/../inject/wire.h supervisor/types.h supervisor/callframe.h \
 supervisor/./elf.h supervisor/./types.h supervisor/infer.h \
 supervisor/module.h
supervisor/cfi.h:
supervisor/../inject/wire.h:
supervisor/types.h:
supervisor/callframe.h:
supervisor/./elf.h:
supervisor/./types.h:
supervisor/infer.h:
supervisor/module.h:
