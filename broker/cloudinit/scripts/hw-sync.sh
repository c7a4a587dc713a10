# MAAS's hardware sync comes as vendor-data, not with this bundle: only whether it
# arrived is looked at.
for unit in maas_hardware_sync.service maas_hardware_sync.timer; do
    systemctl cat "$unit" >/dev/null 2>&1 || fail "MAAS's unit $unit is not there: its vendor-data did not arrive"
done
systemctl --quiet is-enabled maas_hardware_sync.timer || fail "MAAS's maas_hardware_sync.timer is not enabled"
[ -s /etc/maas/maas-machine-creds.yml ] || fail "MAAS's /etc/maas/maas-machine-creds.yml is not there"
