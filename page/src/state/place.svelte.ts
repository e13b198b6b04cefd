/** The folder in view, or that of the file in view. */
export const place = $state({ folder: '/' })
