# Policy routing of the RoCE interfaces: what goes out from an interface's address
# goes out by that interface. MAAS gives the addresses; this waits for them.
while read -r table iface address network gateway; do
    wait=60
    until ip -4 -oneline address show dev "$iface" 2>/dev/null | grep -qF " $address/"; do
        [ "$wait" -gt 0 ] || fail "interface $iface has not got its address $address"
        wait=$((wait - 1))
        sleep 1
    done
    ip link set dev "$iface" up || fail "cannot bring interface $iface up"
    ip route replace "$network" dev "$iface" src "$address" table "$table" || fail "cannot route $network by interface $iface"
    if [ "$gateway" != - ]; then
        ip route replace default via "$gateway" dev "$iface" src "$address" table "$table" || fail "cannot route by $gateway on interface $iface"
    fi
    while ip rule del from "$address" table "$table" 2>/dev/null; do :; done
    ip rule add from "$address" table "$table" priority "$table" || fail "cannot route what comes from $address by interface $iface"
done <"$etc/roce"
