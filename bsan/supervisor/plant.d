/tmp/api/bsan/supervisor/plant.o: supervisor/plant.c supervisor/plant.h \
 supervisor/../inject/wire.h supervisor/types.h supervisor/elf.h \
 supervisor/hooks.h supervisor/module.h supervisor/patch.h
supervisor/plant.h:
supervisor/../inject/wire.h:
supervisor/types.h:
supervisor/elf.h:
supervisor/hooks.h:
supervisor/module.h:
supervisor/patch.h:
