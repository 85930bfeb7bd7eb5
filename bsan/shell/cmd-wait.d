/tmp/api/bsan/shell/cmd-wait.o: shell/cmd-wait.c \
 shell/../supervisor/proc.h shell/../supervisor/types.h \
 shell/../supervisor/units.h shell/command.h \
 shell/../supervisor/session.h shell/../supervisor/process.h \
 shell/../supervisor/cfi.h shell/../supervisor/../inject/wire.h \
 shell/../supervisor/ledger.h shell/../supervisor/marks.h \
 shell/../supervisor/module.h shell/../supervisor/plant.h \
 shell/../supervisor/stream.h shell/../supervisor/symbols.h \
 shell/../supervisor/sites.h shell/../supervisor/types.h
shell/../supervisor/proc.h:
shell/../supervisor/types.h:
shell/../supervisor/units.h:
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
