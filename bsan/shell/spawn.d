/tmp/api/bsan/shell/spawn.o: shell/spawn.c shell/spawn.h \
 shell/../supervisor/types.h
shell/spawn.h:
shell/../supervisor/types.h:
