/tmp/api/bsan/supervisor/hooks.o: supervisor/hooks.c supervisor/hooks.h \
 supervisor/../inject/wire.h supervisor/types.h supervisor/elf.h \
 supervisor/module.h supervisor/note.h supervisor/plant.h \
 supervisor/recognize.h
supervisor/hooks.h:
supervisor/../inject/wire.h:
supervisor/types.h:
supervisor/elf.h:
supervisor/module.h:
supervisor/note.h:
supervisor/plant.h:
supervisor/recognize.h:
