/tmp/api/bsan/supervisor/elf.o: supervisor/elf.c supervisor/elf.h \
 supervisor/types.h
supervisor/elf.h:
supervisor/types.h:
