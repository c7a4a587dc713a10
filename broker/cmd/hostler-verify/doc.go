// Program hostler-verify checks a certificate or a receipt that Hostler issued, for
// people who have nothing else of Hostler: auditors and tenants. It reads two files,
// which have names, and opens no connection. Its verdict is that of hostler certificate
// verify as of now, with the same exit statuses; there is no --at. The terminal shows
// less than that command does. The page of --html is the same.
package main
