/tmp/api/bsan/supervisor/main.o: supervisor/main.c \
 supervisor/../shell/command.h \
 supervisor/../shell/../supervisor/session.h \
 supervisor/../shell/../supervisor/process.h \
 supervisor/../shell/../supervisor/cfi.h \
 supervisor/../shell/../supervisor/../inject/wire.h \
 supervisor/../shell/../supervisor/types.h \
 supervisor/../shell/../supervisor/ledger.h \
 supervisor/../shell/../supervisor/marks.h \
 supervisor/../shell/../supervisor/module.h \
 supervisor/../shell/../supervisor/plant.h \
 supervisor/../shell/../supervisor/stream.h \
 supervisor/../shell/../supervisor/symbols.h \
 supervisor/../shell/../supervisor/sites.h \
 supervisor/../shell/../supervisor/types.h supervisor/../shell/summary.h \
 supervisor/../shell/command.h supervisor/message.h supervisor/types.h \
 supervisor/options.h supervisor/session.h
supervisor/../shell/command.h:
supervisor/../shell/../supervisor/session.h:
supervisor/../shell/../supervisor/process.h:
supervisor/../shell/../supervisor/cfi.h:
supervisor/../shell/../supervisor/../inject/wire.h:
supervisor/../shell/../supervisor/types.h:
supervisor/../shell/../supervisor/ledger.h:
supervisor/../shell/../supervisor/marks.h:
supervisor/../shell/../supervisor/module.h:
supervisor/../shell/../supervisor/plant.h:
supervisor/../shell/../supervisor/stream.h:
supervisor/../shell/../supervisor/symbols.h:
supervisor/../shell/../supervisor/sites.h:
supervisor/../shell/../supervisor/types.h:
supervisor/../shell/summary.h:
supervisor/../shell/command.h:
supervisor/message.h:
supervisor/types.h:
supervisor/options.h:
supervisor/session.h:
