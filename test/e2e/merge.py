# Merges user-data with vendor-data by cloud-init's own code, as a boot does, in a
# directory of its own, and prints what came out. Boothooks are kept and not run.
import json
import os
import sys
from unittest import mock

from cloudinit import helpers, sources, stages, util
from cloudinit.settings import PER_ALWAYS

work, user, vendor = sys.argv[1:4]


class Given(sources.DataSource):
    dsname = "Given"

    def get_instance_id(self):
        return "i-merged"


for part in ("cloud/instances", "cloud/handlers", "run"):
    os.makedirs(os.path.join(work, part))
init = stages.Init()
init._cfg = util.mergemanydict([{"system_info": {"distro": "debian", "paths": {"cloud_dir": work + "/cloud", "run_dir": work + "/run"}}}, util.get_builtin_cfg()])
# It would read the settings of the machine that this runs on.
init._reset = lambda *_: None
given = Given({}, None, init.paths)
given.userdata_raw = open(user, "rb").read()
given.vendordata_raw = open(vendor, "rb").read()
init.datasource = given
init._paths = None
init.instancify()
init.update()
with mock.patch("cloudinit.handlers.boot_hook.subp.subp"):
    init.consume_data(PER_ALWAYS)
cfg = helpers.ConfigMerger(paths=init.paths, datasource=given, base_cfg={}).cfg
json.dump({k: cfg[k] for k in ("write_files", "runcmd", "users") if k in cfg}, sys.stdout)
