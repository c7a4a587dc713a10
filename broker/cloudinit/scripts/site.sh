# The site's own bundle: fetched, checked against its digest, then run.
read -r url digest <"$etc/site"
cd "$state"
if ! echo "$digest  site" | sha256sum --check --strict --status 2>/dev/null; then
    curl --fail --location --silent --show-error --proto =https,http --connect-timeout 10 --speed-limit 1000 --speed-time 60 \
        --max-filesize 268435456 --retry 5 --retry-all-errors --retry-max-time 120 --output site.unverified "$url" ||
        fail "cannot fetch $url (curl's status $?)"
    echo "$digest  site.unverified" | sha256sum --check --strict --status ||
        fail "what $url gave is not sha256:$digest"
    chmod 0700 site.unverified
    mv -f site.unverified site
fi
./site </dev/null || fail "the site's bundle ended with status $?"
