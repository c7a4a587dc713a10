// Package presence moves nodes between active and offline by what is heard of
// them, and nothing else: no other status changes by silence.
//
// # The rules of silence
//
//   - A node that was heard within the threshold is active, one that was not is
//     offline.
//   - Silence counts only while this system could have heard. It begins anew
//     after a start of the watch, after a database that could not be read, and
//     after a full stop of polls, which takes two active nodes: of one alone
//     nobody can say whether it or the way to it is gone.
//   - When more than a share of a site would fall silent, and at least a few
//     nodes, it is more likely that something between is broken: nothing
//     changes there.
//   - The silence of a whole site, of so many nodes at once, or of everybody is told of
//     once, and once more when it has passed, whether statuses change or not. The
//     record outlives whoever leads.
//   - While a turnover is owed nothing leads to active.
//
// A node that is there is heard once in the time that a poll is held, so those
// that are overdue by then count towards the share, although they are not past
// the threshold yet: a site that goes dark is seen as one event, not as a few
// nodes every ten seconds.
//
// Judge is a pure function of what was observed; Watch reads, judges and
// writes. One broker watches, the one that leads.
package presence
