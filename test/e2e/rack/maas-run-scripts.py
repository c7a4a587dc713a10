#!/usr/bin/python3
"""What a rack hands out, as far as a machine without scripts to run needs it:
asks for scripts with the machine's own token, and reports that it is WORKING."""
import sys
import urllib.parse
import urllib.request

import yaml

command, option, name = sys.argv[1:]
assert (command, option) == ("report-results", "--config")
with open(name) as f:
    maas = yaml.safe_load(f)["reporting"]["maas"]
base = maas["endpoint"].split("/status/")[0] + "/2012-03-01/"
oauth = {
    "oauth_consumer_key": maas["consumer_key"], "oauth_token": maas["token_key"], "oauth_version": "1.0",
    "oauth_signature_method": "PLAINTEXT", "oauth_signature": "&" + maas["token_secret"],
}
header = {"Authorization": "OAuth " + ", ".join('%s="%s"' % (k, urllib.parse.quote(v, safe="")) for k, v in oauth.items())}
urllib.request.urlopen(urllib.request.Request(base + "maas-scripts", headers=header), timeout=30)
form = urllib.parse.urlencode({"op": "signal", "status": "WORKING"}).encode()
urllib.request.urlopen(urllib.request.Request(base, data=form, headers=header), timeout=30)
