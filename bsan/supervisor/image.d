/tmp/api/bsan/supervisor/image.o: supervisor/image.c supervisor/image.h \
 supervisor/../inject/wire.h supervisor/module.h supervisor/types.h \
 supervisor/plant.h supervisor/cfi.h supervisor/elf.h
supervisor/image.h:
supervisor/../inject/wire.h:
supervisor/module.h:
supervisor/types.h:
supervisor/plant.h:
supervisor/cfi.h:
supervisor/elf.h:
