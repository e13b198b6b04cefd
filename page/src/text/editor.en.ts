/** Texts of the editor that are not its own English ones. */
export const editor = {}
