/tmp/api/bsan/supervisor/recognize.o: supervisor/recognize.c \
 supervisor/recognize.h supervisor/types.h supervisor/elf.h \
 supervisor/note.h supervisor/../inject/wire.h
supervisor/recognize.h:
supervisor/types.h:
supervisor/elf.h:
supervisor/note.h:
supervisor/../inject/wire.h:
