-- Freezes of one site stack: each operator's stands with its own reason.
DROP INDEX chain_holds_standing;
CREATE UNIQUE INDEX chain_holds_unreachable ON chain_holds (site) WHERE until_at = 0 AND kind = 'unreachable';
CREATE UNIQUE INDEX chain_holds_freezes ON chain_holds (site, placed_by, reason) WHERE until_at = 0 AND kind = 'freeze';
