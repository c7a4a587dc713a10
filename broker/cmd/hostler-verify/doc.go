// Program hostler-verify checks a certificate or a receipt issued by Hostler, for people who have
// nothing else of Hostler: auditors and tenants. The program reads two named files and opens no
// connection. Its verdict equals the verdict of hostler certificate verify as of now, with the same
// exit statuses; there is no --at. The terminal output is shorter than that command's. The page of
// --html is the same.
package main
