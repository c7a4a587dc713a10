// Command try shows a turnover and its certificate to somebody who has just cloned the repository:
// one command, about a minute, one Ctrl-C. It needs neither root nor a guest.
//
// The broker is the built program with SQLite in a temporary directory. The MAAS region is test/maassim,
// and the node is test/try/simnode. After the certificate the program says how to look around, and
// stays until Ctrl-C, which stops the processes and removes the directory. Every wait before that,
// except for gcc, ends after some minutes with an error.
package main
