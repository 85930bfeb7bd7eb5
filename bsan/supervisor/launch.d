/tmp/api/bsan/supervisor/launch.o: supervisor/launch.c \
 supervisor/launch.h supervisor/types.h supervisor/elf.h \
 supervisor/message.h supervisor/recognize.h supervisor/terminal.h
supervisor/launch.h:
supervisor/types.h:
supervisor/elf.h:
supervisor/message.h:
supervisor/recognize.h:
supervisor/terminal.h:
