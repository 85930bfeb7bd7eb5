/tmp/api/bsan/shell/cmd-shell.o: shell/cmd-shell.c \
 shell/../supervisor/message.h shell/../supervisor/types.h \
 shell/command.h shell/../supervisor/session.h \
 shell/../supervisor/process.h shell/../supervisor/cfi.h \
 shell/../supervisor/../inject/wire.h shell/../supervisor/ledger.h \
 shell/../supervisor/marks.h shell/../supervisor/module.h \
 shell/../supervisor/plant.h shell/../supervisor/stream.h \
 shell/../supervisor/symbols.h shell/../supervisor/sites.h \
 shell/../supervisor/types.h shell/spawn.h
shell/../supervisor/message.h:
shell/../supervisor/types.h:
shell/command.h:
shell/../supervisor/session.h:
shell/../supervisor/process.h:
shell/../supervisor/cfi.h:
shell/../supervisor/../inject/wire.h:
shell/../supervisor/ledger.h:
shell/../supervisor/marks.h:
shell/../supervisor/module.h:
shell/../supervisor/plant.h:
shell/../supervisor/stream.h:
shell/../supervisor/symbols.h:
shell/../supervisor/sites.h:
shell/../supervisor/types.h:
shell/spawn.h:
