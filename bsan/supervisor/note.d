/tmp/api/bsan/supervisor/note.o: supervisor/note.c supervisor/note.h \
 supervisor/../inject/wire.h supervisor/types.h supervisor/elf.h
supervisor/note.h:
supervisor/../inject/wire.h:
supervisor/types.h:
supervisor/elf.h:
