/tmp/api/bsan/supervisor/module.o: supervisor/module.c \
 supervisor/module.h supervisor/types.h supervisor/elf.h \
 supervisor/proc.h
supervisor/module.h:
supervisor/types.h:
supervisor/elf.h:
supervisor/proc.h:
