/tmp/api/bsan/shell/cmd-set.o: shell/cmd-set.c shell/../supervisor/view.h \
 shell/../supervisor/profile.h shell/../supervisor/types.h \
 shell/../supervisor/sites.h shell/../supervisor/symbols.h \
 shell/command.h shell/../supervisor/session.h \
 shell/../supervisor/process.h shell/../supervisor/cfi.h \
 shell/../supervisor/../inject/wire.h shell/../supervisor/ledger.h \
 shell/../supervisor/marks.h shell/../supervisor/module.h \
 shell/../supervisor/plant.h shell/../supervisor/stream.h \
 shell/../supervisor/sites.h shell/../supervisor/types.h \
 shell/reporting.h shell/../supervisor/profile.h
shell/../supervisor/view.h:
shell/../supervisor/profile.h:
shell/../supervisor/types.h:
shell/../supervisor/sites.h:
shell/../supervisor/symbols.h:
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
shell/../supervisor/sites.h:
shell/../supervisor/types.h:
shell/reporting.h:
shell/../supervisor/profile.h:
